// Package scenarios is the drill library: documents that can be run as they
// are, or copied and changed.
package scenarios

import "embed"

// Files holds the library: a drill in each file, and below gamedays/ a game day of
// them in each.
//
//go:embed *.yaml gamedays/*.yaml
var Files embed.FS
