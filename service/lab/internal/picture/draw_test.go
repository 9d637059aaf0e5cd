package picture_test

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/picture"
	"github.com/weir-go/weir/service/lab/internal/plot"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

func run(t *testing.T, name string, limit int) figure.Figure {
	t.Helper()
	sc := sim.Scenario{
		Name: name, Duration: 10 * time.Second, Seed: 1,
		Layers:  []sim.Layer{{Name: "service", Workers: 2, ServiceTime: dist.ServiceTime{Mean: 10 * time.Millisecond, Distribution: "exponential"}}},
		Clients: []sim.Client{{Name: "users", Rate: "300", Timeout: 100 * time.Millisecond}},
	}
	if limit > 0 {
		sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: limit}, Queue: 10}
	}
	r, err := sim.Run(t.Context(), sc, nil, nil)
	testrig.Must(t, err)
	return figure.Figure{Scenarios: []sim.Scenario{sc}, Runs: []sim.Result{r}}
}

func drawn(t *testing.T, format string, runs ...figure.Figure) []byte {
	t.Helper()
	all := figure.Figure{Title: "A title", File: "a file"}
	for _, f := range runs {
		all.Scenarios, all.Runs = append(all.Scenarios, f.Scenarios...), append(all.Runs, f.Runs...)
	}
	var buf bytes.Buffer
	testrig.Must(t, picture.Draw(&buf, &all, format))
	return buf.Bytes()
}

func TestSameRunsSameBytes(t *testing.T) {
	for _, format := range plot.Formats {
		one := drawn(t, format, run(t, "free", 0), run(t, "limited", 3))
		if two := drawn(t, format, run(t, "free", 0), run(t, "limited", 3)); !bytes.Equal(one, two) {
			t.Errorf("%s: the same runs give other bytes", format)
		}
	}
}

func TestSVG(t *testing.T) {
	svg := string(drawn(t, "svg", run(t, "free", 0), run(t, "limited", 3)))
	for _, want := range []string{"<svg", "A title", "weirlab sim a file · seed 1", ">free<", ">limited<", "clients give up", "In flight at service", "simulated time"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture of two runs lacks %q", want)
		}
	}
	svg = string(drawn(t, "svg", run(t, "limited", 3)))
	for _, want := range []string{"offered", "turned away", "goodput", "p99", "In service", ">limit<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture of one run lacks %q", want)
		}
	}
}

func TestPNG(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(drawn(t, "png", run(t, "free", 0))))
	testrig.Must(t, err)
	if b := img.Bounds(); b.Dx() != 1100 {
		t.Errorf("%v: want 1100 pixels wide", b)
	}
}

func TestFormat(t *testing.T) {
	f := run(t, "free", 0)
	if err := picture.Draw(&bytes.Buffer{}, &f, "gif"); err == nil {
		t.Error("a format that is not known is an error")
	}
}
