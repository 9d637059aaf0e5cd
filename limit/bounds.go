package limit

import "fmt"

// fillBounds fills in those of the bounds that are zero, which all limits that
// move have in common: least, most, and first brought between the two.
func fillBounds(initial, low, high *int, first, least, most int) {
	if *low == 0 {
		*low = least
	}
	if *high == 0 {
		*high = max(most, *low)
	}
	if *initial == 0 {
		*initial = min(max(first, *low), *high)
	}
}

// checkBounds says which of them is out of range, or returns nil. Defaults are
// always in range, so it names what was given.
func checkBounds(initial, low, high int) error {
	switch {
	case low < 1:
		return fmt.Errorf("limit: Min = %d: must be >= 1", low)
	case high < low:
		return fmt.Errorf("limit: Max = %d: must be >= Min (%d)", high, low)
	case initial < low || initial > high:
		return fmt.Errorf("limit: Initial = %d: must be in [%d, %d]", initial, low, high)
	}
	return nil
}
