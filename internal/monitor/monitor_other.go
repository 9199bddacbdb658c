//go:build !linux

package monitor

// Calm does nothing: other kernels have no such setting.
func Calm() error { return nil }
