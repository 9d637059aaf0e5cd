//go:build !race

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArenaCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	code, stdout, stderr := weirlab(t, "arena", "--only", "low,small", "--policies", "auto,none", "--seeds", "1", "--out", dir, "--detail")
	if code != 0 || !strings.Contains(stdout, "low-traffic") || !strings.Contains(stdout, "inflight.Config{}") ||
		!strings.Contains(stdout, "of oracle") || !strings.Contains(stderr, "arena.svg") {
		t.Errorf("%d, %q, %q: want a leaderboard, its details and a picture", code, stdout, stderr)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "arena.svg")); err != nil || !bytes.Contains(picture, []byte("seed 1")) {
		t.Errorf("%v: want a picture that names its seed", err)
	}

	code, stdout, stderr = weirlab(t, "arena", "--only", "low-traffic", "--policies", "auto", "--seeds", "2", "--json", "--deadlines")
	var got struct {
		Seeds     int  `json:"seeds"`
		Deadlines bool `json:"deadlines"`
		Matrix    []struct {
			Cells []struct {
				Policy  string  `json:"policy"`
				Score   float64 `json:"score"`
				Goodput float64 `json:"goodput"`
			} `json:"cells"`
		} `json:"matrix"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Seeds != 2 || !got.Deadlines || len(got.Matrix) != 1 ||
		len(got.Matrix[0].Cells) != 1 || got.Matrix[0].Cells[0].Policy != "auto" || got.Matrix[0].Cells[0].Goodput < 0.9 {
		t.Errorf("%d, %v, %.300q, %q: want one cell", code, err, stdout, stderr)
	}
}

func TestArenaGroups(t *testing.T) {
	code, stdout, stderr := weirlab(t, "arena", "--group", "all", "--only", "low-traffic,slow-work/8 ", "--policies", "auto,none", "--seeds", "1")
	if code != 0 || !strings.Contains(stdout, "mean of 1 classic rows") || !strings.Contains(stdout, "mean of 1 production rows") {
		t.Errorf("%d, %q, %q: want the mean of each group", code, stdout, stderr)
	}
}

func TestArenaRandom(t *testing.T) {
	code, stdout, stderr := weirlab(t, "arena", "--random", "35..36", "--only", "35", "--seeds", "1", "--detail")
	if code != 0 || !strings.Contains(stdout, "35-failures/library") || strings.Contains(stdout, "36-") || !strings.Contains(stdout, "static-knee") ||
		!strings.Contains(stdout, "of oracle") {
		t.Errorf("%d, %q, %q: want one scenario in two modes", code, stdout, stderr)
	}
	code, stdout, _ = weirlab(t, "arena", "--random", "35", "--count", "1", "--policies", "auto,vegas", "--seeds", "1", "--json")
	var got struct {
		Comparison struct {
			Policy string
			Cells  []struct{ Share float64 }
		}
		Matrix []any
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Comparison.Policy != "auto" || len(got.Comparison.Cells) != 2 || len(got.Matrix) != 2 {
		t.Errorf("%d, %v, %.300q: want the comparison and the matrix", code, err, stdout)
	}
	// The output of --yaml is a file for weirlab sim.
	code, stdout, stderr = weirlab(t, "arena", "--random", "35", "--yaml")
	file := filepath.Join(t.TempDir(), "35.yaml")
	if err := os.WriteFile(file, []byte(stdout), 0o666); err != nil || code != 0 {
		t.Fatalf("%d, %q, %v", code, stderr, err)
	}
	if code, stdout, stderr = weirlab(t, "sim", file, "--variant", "proxy"); code != 0 || !strings.Contains(stdout, "Random 35, failures") {
		t.Errorf("%d, %q, %q: want the scenario's table", code, stdout, stderr)
	}
}

func TestArenaErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"--seeds", "0"}, "--seeds=0: must be in [1, 1000]"},
		{2, []string{"--seeds", "1001"}, "--seeds=1001: must be in [1, 1000]"},
		{2, []string{"--only", "nothing"}, "--only=nothing: no scenario has this text in its name"},
		{2, []string{"--group", "new"}, "--group"},
		{2, []string{"--random", "7", "--kind", "x"}, "--kind=x: must be one of plain, "},
		{2, []string{"--kind", "street"}, "--kind=street: needs --random=SEED"},
		{2, []string{"--random", "x"}, "--random=x: must be a seed, such as 7, or a range of seeds, such as 1..40"},
		{2, []string{"--random", "7..3"}, "--random=7..3: the first seed must not be above the last"},
		{2, []string{"--random", "1..10001"}, "--random=1..10001: must be 1 to 10000 seeds"},
		{2, []string{"--random", "7..8", "--yaml"}, "--random=7..8: with --yaml, must be one seed, such as 7"},
		{2, []string{"--yaml"}, "--yaml: needs --random=SEED"},
		{2, []string{"--random", "7", "--count", "0"}, "--count=0: must be in [1, 10000]"},
		{2, []string{"--count", "3"}, "--count=3: needs --random=SEED"},
		{2, []string{"--random", "7", "--group", "classic"}, "--group=classic and --random exclude each other"},
		{2, []string{"--random", "7..8", "--count", "2"}, "--count=2 and the range --random=7..8 exclude each other"},
		{2, []string{"--random", "7", "--yaml", "--count", "2"}, "--count=2 and --yaml exclude each other"},
		{2, []string{"--random", "7..8", "--policies", "none"}, "--policies=none: must include auto with --random"},
		{2, []string{"--policies", "auto,best"}, "--policies=best: must be one of none, static-under"},
		{2, []string{"--format", "gif"}, "--format"},
		{1, []string{"--only", "low", "--policies", "none", "--seeds", "1", "--out", file}, "--out"},
	} {
		code, stdout, stderr := weirlab(t, append([]string{"arena"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("weirlab arena %v: %d, %q, %q: want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

func TestArenaInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, err bytes.Buffer
	if code := program.Run(ctx, []string{"arena"}, &out, &err); code != 1 || out.Len() > 0 || !strings.Contains(err.String(), "interrupted") {
		t.Errorf("%d, %q, %q: want no table of half a matrix", code, out.String(), err.String())
	}
}
