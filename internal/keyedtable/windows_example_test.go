package keyedtable_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

// The twelfth event, in a window that is full, is counted when the fourth window
// after it begins.
func ExampleWindows_Ahead() {
	lim, _ := keyedtable.NewWindows[string](keyedtable.Window{Limit: 3, Period: time.Minute}, keyedtable.Config{})
	lim.Take("alice", 3, 0)
	fmt.Println(lim.Ahead("alice", 12, 0).Round(time.Minute))
	// Output: 4m0s
}
