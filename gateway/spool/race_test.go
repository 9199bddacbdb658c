//go:build race

package spool

const raceEnabled = true // sync.Pool forgets at random under the race detector
