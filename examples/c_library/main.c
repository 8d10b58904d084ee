/* Reads one handwritten digit with a compiled model, without Python:

       onnxc compile digits.onnx --emit c-library -o digits
       cc main.c -Idigits -Ldigits -ldigits -Wl,-rpath,'$ORIGIN/digits' -o read_digit
       ./read_digit */

#include "digits.h"
#include <stdio.h>

static const char *IMAGE[8] = {"..####..", ".#....#.", ".#....#.", ".#....#.",
                               ".#....#.", ".#....#.", ".#....#.", "..####.."};

static int fail(digits_model *model)
{
    fprintf(stderr, "%s\n", digits_error(model));
    digits_close(model);
    return 1;
}

int main(void)
{
    float pixels[64], probabilities[10];
    for (int i = 0; i < 64; i++)
        pixels[i] = IMAGE[i / 8][i % 8] == '#' ? 1.0f : 0.0f;

    digits_model *model;
    if (digits_open(&model, NULL, 1) != digits_ok)
        return fail(model);

    const int64_t image_shape[4] = {1, 1, 8, 8};
    const int64_t *input_shapes[digits_inputs] = {image_shape};
    int64_t result_shape[2], *output_shapes[digits_outputs] = {result_shape};
    if (digits_shapes(model, input_shapes, output_shapes) != digits_ok)
        return fail(model);
    printf("probabilities: %d x %d\n", (int)result_shape[0], (int)result_shape[1]);

    const void *inputs[digits_inputs] = {pixels};
    void *outputs[digits_outputs] = {probabilities};
    if (digits_run(model, inputs, input_shapes, outputs) != digits_ok)
        return fail(model);

    int best = 0;
    for (int digit = 1; digit < 10; digit++)
        if (probabilities[digit] > probabilities[best])
            best = digit;
    printf("read: %d\n", best);
    digits_close(model);
    return 0;
}
