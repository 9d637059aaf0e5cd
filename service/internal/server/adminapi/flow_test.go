package adminapi

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/waiting"
)

func TestQuantile(t *testing.T) {
	counts := func(n ...uint64) (w waiting.Times) {
		copy(w.Counts[:], n)
		return w
	}
	beyond := waiting.Times{}
	beyond.Counts[len(beyond.Counts)-1] = 1
	for _, tt := range []struct {
		rule      string
		q         float64
		now, then waiting.Times
		want      time.Duration
		known     bool
	}{
		{"nobody waited", 0.95, counts(), counts(), 0, false},
		{"nobody waited of late", 0.95, counts(7, 7), counts(7, 7), 0, false},
		{"in the first bucket, from 0 to 5 ms", 0.5, counts(10), counts(), 2500 * time.Microsecond, true},
		{"in the second, from 5 to 10 ms", 0.5, counts(0, 10), counts(), 7500 * time.Microsecond, true},
		{"the bound between two", 0.5, counts(10, 10), counts(), 5 * time.Millisecond, true},
		{"only those of late count", 0.5, counts(1000, 10), counts(1000), 7500 * time.Microsecond, true},
		{"counted anew", 0.5, counts(10), counts(1000), 2500 * time.Microsecond, true},
		{"of most", 0.9, counts(80, 20), counts(), 7500 * time.Microsecond, true},
		{"longer than all bounds", 0.95, beyond, counts(), time.Minute, true},
	} {
		if got, known := quantile(tt.q, tt.now, tt.then); got != tt.want || known != tt.known {
			t.Errorf("%s: %v, %v: want %v, %v", tt.rule, got, known, tt.want, tt.known)
		}
	}
}
