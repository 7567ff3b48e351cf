"""The staircase in miniature: does each stage of training really help, on tasks that can't be guessed?"""
