//go:build !race

package wire_test

const racing = false
