// Package scenarios is the drill library: documents that can be run as they
// are, or copied and changed.
package scenarios

import "embed"

// Files holds the library, one document a file.
//
//go:embed *.yaml
var Files embed.FS
