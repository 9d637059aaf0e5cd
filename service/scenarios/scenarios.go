// Package scenarios holds scenario files, for weir sim to read, and those of
// weir arena for the binary to have with it.
package scenarios

import "embed"

// Files has the files of the arena. Each scenario has Auto's guard wherever a policy is
// to stand. The classic rows are in the folder arena, the rows about production in
// arena/production.
//
//go:embed arena/*.yaml arena/production/*.yaml
var Files embed.FS
