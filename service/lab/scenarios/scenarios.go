// Package scenarios holds scenario files, for weirlab sim to read, and those of
// weirlab arena for the binary to have with it.
package scenarios

import "embed"

// Files has the files of the arena. Each scenario has Auto's guard wherever a policy is
// to stand. The classic rows are in the folder arena, those of other groups in a folder of
// that name below it.
//
//go:embed arena/*.yaml arena/production/*.yaml arena/search/*.yaml arena/street/*.yaml
var Files embed.FS
