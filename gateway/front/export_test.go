package front

// Closing reports whether a server of f has begun to stop.
func (f *Front) Closing() bool { return f.closing.Load() }
