"""What tests and scripts share: a `.tflite` writer and reference interpreters."""
