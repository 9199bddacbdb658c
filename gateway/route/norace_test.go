//go:build !race

package route_test

const raceEnabled = false
