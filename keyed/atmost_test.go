package keyed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

func TestAllowAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := keyed.New[string](rate.Per(1, time.Second, 5), keyed.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			key     string
			after   time.Duration
			n, want int
		}{{"a", 0, 3, 3}, {"a", 0, 3, 2}, {"a", 0, 3, 0}, {"b", 0, 9, 5}, {"a", 2 * time.Second, 9, 2}, {"a", 0, 0, 0}} {
			time.Sleep(tt.after)
			if got := lim.AllowAtMost(tt.key, tt.n); got != tt.want {
				t.Errorf("%+v: %d", tt, got)
			}
		}
	})
}
