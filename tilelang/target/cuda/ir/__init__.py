"""The device IR: what one GPU thread does, as typed records; the printer is the only place where they become text."""
