// Package bytesize reads and writes numbers of bytes.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Size is a number of bytes. As text, it may have the unit KiB, MiB or GiB.
type Size int

var units = []struct {
	name  string
	shift int
}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

// UnmarshalText reads 65536, 64KiB, 16MiB or 1GiB.
func (s *Size) UnmarshalText(text []byte) error {
	number, shift := string(text), 0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, shift = rest, u.shift
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > math.MaxInt>>shift {
		return fmt.Errorf("%q: want a number of bytes, such as 65536, 64KiB, 16MiB or 1GiB", text)
	}
	*s = Size(n << shift)
	return nil
}

// String returns the size in the largest unit of which it is a whole number.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%(1<<u.shift) == 0 {
			return strconv.Itoa(int(s>>u.shift)) + u.name
		}
	}
	return strconv.Itoa(int(s))
}
