"""What is judged: episodes, steps and samples of a part, their screens, and what is labelled about them."""
