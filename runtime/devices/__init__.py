"""Models on several devices: how an artifact is divided or cut, how that is loaded, and calls on all devices."""
