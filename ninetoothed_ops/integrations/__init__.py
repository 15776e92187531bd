"""Integrations of other libraries; each file is imported only when it is asked for."""
