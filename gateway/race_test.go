//go:build race

package gateway

const raceEnabled = true // sync.Pool forgets at random under the race detector
