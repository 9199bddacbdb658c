//go:build race

package route_test

// The race detector makes sync.Pool drop at random.
const raceEnabled = true
