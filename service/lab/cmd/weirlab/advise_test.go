//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// overloaded returns the recording of ten workers that take 50 ms, of which the load goes up to 1.2 times the
// capacity.
func overloaded() []byte {
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(1_700_000_000, 0))
	free := [10]time.Duration{}
	at := time.Duration(0)
	for i := range 8000 {
		at += time.Duration(float64(time.Second) / (20 + 220*float64(i)/8000))
		k := i % len(free)
		end := max(at, free[k]) + time.Duration(50e6*(1+0.3*math.Sin(float64(7*i))))
		free[k] = end
		_ = w.Write(recording.Record{Intended: at, Start: at, End: end, Outcome: recording.Ended(weir.Success)})
	}
	_ = w.Flush()
	return b.Bytes()
}

func TestAdvise(t *testing.T) {
	dir := t.TempDir()
	in := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		clitest.Fatal(t, os.WriteFile(name, content, 0o600))
		return name
	}
	whole := overloaded()
	file, cut := in("whole", whole), in("cut", whole[:len(whole)-5])
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	code, stdout, stderr := weirlab(t, "advise", file, "--json", "--slo", "p99=300ms", "--load", "2x")
	var a struct {
		Requests int
		Knee     struct{ Value, Low, High float64 }
		Incident struct {
			Cause   string
			Began   *float64
			Setting *struct{ Limit string }
		}
	}
	clitest.Fatal(t, json.Unmarshal([]byte(stdout), &a))
	if k := a.Knee; code != 0 || stderr != "" || a.Requests != 8000 || k.Value < 9 || k.Value > 11 || k.Low > 10 || k.High < 10 {
		t.Errorf("%d, %q, %+v", code, stderr, a)
	}
	if i := a.Incident; i.Cause != "demand" || i.Began == nil || *i.Began < 20 || i.Setting == nil || i.Setting.Limit != "auto" {
		t.Errorf("%+v", i)
	}
	if code, stdout, stderr = weirlab(t, "advise", cut); code != 0 || !strings.Contains(stderr, cut+": the file is cut off within a block: the 7680 requests before that are read") || !strings.Contains(stdout, "7680 requests in") || !strings.Contains(stdout, "\nincident      ") {
		t.Errorf("%d, %q, %s", code, stderr, stdout)
	}
	if _, stdout, _ = weirlab(t, "advise", cut, "--json"); !strings.Contains(stdout, `"cut": "`+cut+`: the file is cut off within a block`) {
		t.Errorf("%s", stdout)
	}
	if code, _, stderr = weirlab(t, "advise", in("damaged", damaged)); code != 0 || !strings.Contains(stderr, "the checksum of a block is wrong: the ") {
		t.Errorf("%d, %q", code, stderr)
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{}, "<file>"},
		{2, []string{filepath.Join(dir, "none")}, "no such file"},
		{2, []string{in("text", []byte("intended_s,start_s\n"))}, "the file is no recording"},
		{2, []string{in("short", whole[:100])}, "the file is cut off within a block"},
		{2, []string{in("empty", whole[:24])}, "the recording has no requests"},
		{2, []string{file, "--slo", "200ms"}, "p95=200ms"},
		{2, []string{file, "--slo", "p100=200ms"}, "p95=200ms"},
		{2, []string{file, "--slo", "p95=-1s"}, "p95=200ms"},
		{2, []string{file, "--load", "0"}, "1.5x"},
		{2, []string{file, "--load", "infx"}, "1.5x"},
	} {
		if code, _, stderr := weirlab(t, append([]string{"advise"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: %d, %q: want %d, %q", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}
