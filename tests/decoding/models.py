"""Small decoders as text, with values that can be said: one layer without weights but its tables."""

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'

TABLES = """<
  float[5, 2] table = {0, 1, 1, 0, 1, 1, 2, 0, 0, 2},
  float[2, 5] head = {1, 0, 1, 2, 0, 0, 1, 1, 0, 2}
>"""


def summing(*, present: str = "Concat <axis = 1> (past, embedded)") -> str:
    """The logits of a token are those of the sum of all embeddings up to it; the cache holds the embeddings."""
    return f"""{HEAD}summing (
  int64[batch, sequence] input_ids, int64[batch, total] attention_mask, float[batch, past, 2] past
)
  => (float[batch, sequence, 5] logits, float[batch, all, 2] present)
{TABLES} {{
  embedded = Gather <axis = 0> (table, input_ids)
  present = {present}
  one = Constant <value = int64[1] {{1}}> ()
  last = Constant <value = int64[1] {{2}}> ()
  counts = Cast <to = 1> (attention_mask)
  column = Unsqueeze (counts, last)
  counted = Mul (present, column)
  sum = ReduceSum (counted, one)
  spread = Sub (embedded, embedded)
  row = Add (spread, sum)
  logits = MatMul (row, head)
}}"""


def positioned() -> str:
    """The logits are the position of the token in every place, which comes from outside, times a table of 9 rows."""
    return f"""{HEAD}positioned (
  int64[batch, sequence] input_ids, int64[batch, sequence] position_ids, int64[batch, total] attention_mask,
  int64[sequence] cache_position, float[batch, past, 2] past
)
  => (float[batch, sequence, 4] logits, float[batch, all, 2] present)
<float[5, 2] table = {{0, 1, 1, 0, 1, 1, 2, 0, 0, 2}}, float[9, 1] places = {{0, 1, 2, 3, 4, 5, 6, 7, 8}}> {{
  embedded = Gather <axis = 0> (table, input_ids)
  present = Concat <axis = 1> (past, embedded)
  place = Gather <axis = 0> (places, position_ids)
  one = Constant <value = int64[1] {{1}}> ()
  last = Constant <value = int64[1] {{2}}> ()
  counts = ReduceSum (attention_mask, one)
  counted = Unsqueeze (counts, last)
  count_row = Cast <to = 1> (counted)
  zero = Sub (place, place)
  count = Add (zero, count_row)
  where = Unsqueeze (cache_position, one)
  where_row = Cast <to = 1> (where)
  absolute = Add (zero, where_row)
  sums = ReduceSum (present, one)
  summed = ReduceSum (sums, last)
  total = Add (zero, summed)
  logits = Concat <axis = 2> (place, count, absolute, total)
}}"""


def attending() -> str:
    """The standard's attention over the cache, two heads of queries for one of keys, which are the values too."""
    return """<ir_version: 10, opset_import: ["" : 23]>
attending (
  int64[batch, sequence] input_ids, int64[batch, total] attention_mask,
  float[batch, 1, past, 2] past_keys, float[batch, 1, past, 2] past_values
)
  => (float[batch, sequence, 4] logits, float[batch, 1, all, 2] present_keys, float[batch, 1, all, 2] present_values)
<float[3, 4] table = {0, 1, 1, 0, 1, 2, 0.5, 1, -1, 0, 2, 0.25}> {
  queries = Gather <axis = 0> (table, input_ids)
  keys, others = Split <axis = 2, num_outputs = 2> (queries)
  attended, present_keys, present_values = Attention <q_num_heads = 2, kv_num_heads = 1, is_causal = 1> (
    queries, keys, others, , past_keys, past_values
  )
  last = Constant <value = int64[1] {1}> ()
  counts = ReduceSum (attention_mask, last)
  column = Unsqueeze (counts, last)
  count = Cast <to = 1> (column)
  logits = Mul (attended, count)
}"""
