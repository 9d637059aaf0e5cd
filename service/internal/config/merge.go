package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Merged returns the rule for the keys that match just these of the Rules, by
// their places in ascending order: Rules[0], and over it, field by field, what
// the others give of Rate.Count, Rate.Period (if not zero) and Queue (if not
// nil). Other fields, the pattern included, come from Rules[0].
//
// Its name combines their names, and is unique unless these contain spaces; names
// that Complete makes do not. There can be 2 to the power of len(r.Rules)-1 such
// rules: a caller that keeps them must bound their number.
func (r *Rules) Merged(matching []int) Rule {
	merged := r.Rules[0]
	var names []string
	for _, i := range matching {
		if i == 0 {
			continue
		}
		over := &r.Rules[i]
		names = append(names, over.Name)
		if over.Rate.Count != 0 {
			merged.Rate.Count = over.Rate.Count
		}
		if over.Rate.Period != 0 {
			merged.Rate.Period = over.Rate.Period
		}
		if over.Queue != nil {
			merged.Queue = over.Queue
		}
	}
	if len(names) > 0 {
		merged.Name = joined(names)
	}
	return merged
}

// joined makes one name of several. If it is too long, it ends in a hash.
func joined(names []string) string {
	name := strings.Join(names, " + ")
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "... " + hex.EncodeToString(sum[:8])
	return name[:maxName-len(hash)] + hash
}
