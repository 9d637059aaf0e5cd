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
	code, stdout, stderr := weir(t, "arena", "--only", "low,small", "--policies", "auto,none", "--seeds", "1", "--out", dir, "--detail")
	if code != 0 || !strings.Contains(stdout, "low-traffic") || !strings.Contains(stdout, "inflight.Config{}") ||
		!strings.Contains(stdout, "of oracle") || !strings.Contains(stderr, "arena.svg") {
		t.Errorf("%d, %q, %q: want a leaderboard, its details and a picture", code, stdout, stderr)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "arena.svg")); err != nil || !bytes.Contains(picture, []byte("seed 1")) {
		t.Errorf("%v: want a picture that names its seed", err)
	}

	code, stdout, stderr = weir(t, "arena", "--only", "low-traffic", "--policies", "auto", "--seeds", "2", "--json", "--deadlines")
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
		{2, []string{"--only", "nothing"}, "--only=nothing: no scenario has such a name"},
		{2, []string{"--policies", "auto,best"}, "--policies=best: must be of none, static-under"},
		{2, []string{"--format", "gif"}, "--format"},
		{1, []string{"--only", "low", "--policies", "none", "--seeds", "1", "--out", file}, "--out"},
	} {
		code, stdout, stderr := weir(t, append([]string{"arena"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("weir arena %v: %d, %q, %q: want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

func TestArenaInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"arena"}, &out, &err); code != 1 || out.Len() > 0 || !strings.Contains(err.String(), "interrupted") {
		t.Errorf("%d, %q, %q: want no table of half a matrix", code, out.String(), err.String())
	}
}
