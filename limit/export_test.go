package limit

import "github.com/weir-go/weir/internal/autolimit"

// EvidenceOf returns the measurements of an Auto as numbers.
func EvidenceOf(a Algorithm) autolimit.Evidence { return a.(auto).Auto.Evidence() }
