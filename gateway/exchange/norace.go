//go:build !race

package exchange

const scribble = false
