"""Is what a run needs here, before it costs anything?"""
