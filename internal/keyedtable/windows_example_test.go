package keyedtable_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

// Each account may send three messages an hour, from its first on.
func ExampleWindows() {
	lim, err := keyedtable.NewWindows[string](keyedtable.Window{Limit: 3, Period: time.Hour}, keyedtable.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		d := lim.Take("alice", 1, 0)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	fmt.Println(lim.Take("bob", 1, 0).OK)
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1h0m0s
	// true
}

// Work that cost less than was thought gives back the rest, if the window that
// it was counted in is still the present one.
func ExampleWindows_SettleAt() {
	lim, _ := keyedtable.NewWindows[string](keyedtable.Window{Limit: 1000, Period: time.Hour}, keyedtable.Config{})
	lim.Take("alice", 500, 0)
	at := time.Now()

	fmt.Println(lim.SettleAt("alice", at, 500, 120))
	used, _ := lim.Used("alice")
	fmt.Println(used)
	// Output:
	// 120
	// 120
}

// Whoever is twelfth in line, in a window that is full, has its turn when the
// fourth after it begins.
func ExampleWindows_Ahead() {
	lim, _ := keyedtable.NewWindows[string](keyedtable.Window{Limit: 3, Period: time.Minute}, keyedtable.Config{})
	lim.Take("alice", 3, 0)
	fmt.Println(lim.Ahead("alice", 12, 0).Round(time.Minute))
	// Output: 4m0s
}
