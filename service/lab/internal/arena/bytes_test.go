package arena

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

func matrix(t *testing.T, seeds int, rows, policies []string) Result {
	t.Helper()
	all, err := Rows(Classic)
	testrig.Must(t, err)
	cfg := Config{Seeds: seeds}
	for _, r := range all {
		if rows == nil || slices.Contains(rows, r.Name) {
			cfg.Rows = append(cfg.Rows, r)
		}
	}
	for _, p := range Policies() {
		if policies == nil || slices.Contains(policies, p.Name) {
			cfg.Policies = append(cfg.Policies, p)
		}
	}
	var done atomic.Int64
	r, err := Run(t.Context(), cfg, &done)
	testrig.Must(t, err)
	if got := time.Duration(done.Load()); got != cfg.Duration() {
		t.Errorf("%v simulated: want %v", got, cfg.Duration())
	}
	return r
}

// written is all that a result can be written as.
func written(t *testing.T, r Result) []byte {
	t.Helper()
	var buf bytes.Buffer
	text, err := json.Marshal(r)
	if err = errors.Join(err, r.Table(&buf), r.Detail(&buf), r.Draw(&buf, "svg")); err != nil {
		t.Fatal(err)
	}
	return append(buf.Bytes(), text...)
}

// The same seeds give the same bytes, however many run at once.
func TestSameSeedsSameBytes(t *testing.T) {
	rows, policies := []string{"small", "low-traffic"}, []string{"none", "vegas", "codel-knee", "auto"}
	first := written(t, matrix(t, 2, rows, policies))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again := written(t, matrix(t, 2, rows, policies)); !bytes.Equal(first, again) {
		t.Error("the same seeds give other bytes")
	}
	if other := written(t, matrix(t, 1, rows, policies)); bytes.Equal(first, other) {
		t.Error("other seeds give the same bytes")
	}
}
