"""On-policy distillation: one agent learns from several teachers on its own replies."""
