package blackbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/blackbox"
)

// A rig is a service that has a request each second.
type rig struct {
	*blackbox.Box
	t    *testing.T
	dir  string
	log  bytes.Buffer
	stop func()
}

func start(t *testing.T, dir string) *rig {
	g := &rig{t: t, dir: dir}
	var err error
	g.Box, err = blackbox.New(blackbox.Config{
		Records: 1000, Dir: dir, Size: 16 << 20, Log: slog.New(slog.NewTextHandler(&g.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	end := g.Start(ctx)
	g.stop = func() {
		end()
		stop()
		time.Sleep(time.Second)
	}
	rec := g.Recorder()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			rec.Add(&recording.Record{Intended: rec.Now(), Start: rec.Now(), End: rec.Now(), Class: rec.Class("GET /a"), Inflight: i})
			time.Sleep(time.Second)
		}
	}()
	return g
}

// files returns the names of the files.
func (g *rig) files() (names []string) {
	g.t.Helper()
	dir, err := os.ReadDir(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range dir {
		names = append(names, e.Name())
	}
	return names
}

// span reads a recording, and returns the instants of the first and the last record.
func span(t *testing.T, from io.Reader) (first, last time.Duration) {
	t.Helper()
	in, err := recording.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	first = -1
	for {
		r, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if first < 0 || r.End < first {
			first = r.End
		}
		last = max(last, r.End)
	}
	if in.Names()[1] != "GET /a" || in.Lost() != 0 {
		t.Errorf("%v, %d lost", in.Names(), in.Lost())
	}
	return first.Round(time.Second), last.Round(time.Second)
}

func (g *rig) span(name string) (first, last time.Duration) {
	g.t.Helper()
	f, err := os.Open(filepath.Join(g.dir, name))
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	return span(g.t, f)
}

func (g *rig) metrics() string {
	g.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.NewCollector(nil, blackbox.Families, g.Collect))
	all, err := testutil.GatherAndCount(registry)
	if err != nil {
		g.t.Fatal(err)
	}
	w, _ := registry.Gather()
	text := fmt.Sprint(all)
	for _, f := range w {
		text += fmt.Sprintf(" %s=%v", strings.TrimPrefix(f.GetName(), "weir_recording_"), f.GetMetric()[0].GetCounter().GetValue())
	}
	return text
}

// A file has the minute before a change, and the minute after the last change that follows closely.
func TestAFileHasTheMinutesAroundAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, t.TempDir())
		time.Sleep(200*time.Second + time.Millisecond)
		g.Note("limit_used")
		time.Sleep(30 * time.Second)
		if got := g.files(); len(got) != 1 || !strings.HasSuffix(got[0], "-limit_used.rec.part") {
			t.Errorf("%v", got)
		}
		time.Sleep(40 * time.Second)
		if got := g.files(); len(got) != 1 || got[0] != "20000101T000320.001Z-limit_used.rec" {
			t.Fatalf("%v", got)
		}
		if first, last := g.span(g.files()[0]); first != 141*time.Second || last != 260*time.Second {
			t.Errorf("from %v to %v", first, last)
		}
		g.Note("timeout") // at 270 s
		time.Sleep(50 * time.Second)
		g.Note("limit_used")
		time.Sleep(time.Hour)
		if first, last := g.span(g.files()[1]); first != 211*time.Second || last != 380*time.Second {
			t.Errorf("from %v to %v", first, last)
		}
		for range 20 { // for longer than a file is
			g.Note("flapping")
			time.Sleep(20 * time.Second)
		}
		g.stop()
		if got := g.files(); len(got) != 4 || !strings.HasSuffix(got[3], "-flapping.rec") {
			t.Fatalf("%v", got)
		}
		if first, last := g.span(g.files()[2]); last-first != 359*time.Second {
			t.Errorf("from %v to %v", first, last)
		}
		if got := g.metrics(); got != "3 failures_total=0 files_total=4 lost_total=0" {
			t.Error(got)
		}
	})
}

// A file that cannot be written is said once in a while, and the service goes on.
func TestADirectoryThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, filepath.Join(t.TempDir(), "recordings"))
		if err := os.Remove(g.dir); err != nil {
			t.Fatal(err)
		}
		for range 90 {
			g.Note("limit_used")
			time.Sleep(time.Second)
		}
		if err := os.Mkdir(g.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		g.Note("limit_used")
		time.Sleep(2 * time.Minute)
		g.stop()
		if n := strings.Count(g.log.String(), `level=ERROR msg="the recording was not saved" change=limit_used error="open `); n != 2 {
			t.Errorf("%s", &g.log)
		}
		if got := g.metrics(); got != "3 failures_total=2 files_total=1 lost_total=0" {
			t.Error(got)
		}
	})
}

// The oldest files are deleted, so that all of them and the next one have room. Other files stay.
func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for i := range 4 {
		write(fmt.Sprintf("1999010%dT000000.000Z-timeout.rec", i+1), 4<<20)
	}
	write("0000.txt", 20<<20)
	write("0000-of-an-incident.rec", 20<<20)
	synctest.Test(t, func(t *testing.T) {
		g := start(t, dir)
		g.Note("limit_used")
		time.Sleep(2 * time.Minute)
		if got := g.files(); len(got) != 6 || got[2] != "19990102T000000.000Z-timeout.rec" || !strings.HasSuffix(got[5], "-limit_used.rec") {
			t.Errorf("%v", got)
		}
		g.stop()
	})
	dir = t.TempDir()
	for i := range 150 {
		write(fmt.Sprintf("19980101T000000.%03dZ-timeout.rec", i), 1)
	}
	synctest.Test(t, func(t *testing.T) {
		g := start(t, dir)
		g.Note("limit_used")
		time.Sleep(2 * time.Minute)
		if got := g.files(); len(got) != 100 {
			t.Errorf("%d files", len(got))
		}
		g.stop()
	})
}

// What a process that was killed has left is finished, also if the clock has been set back since.
func TestAKilledProcessLeavesItsFile(t *testing.T) {
	for _, ago := range []time.Duration{time.Minute, -time.Hour} {
		dir := t.TempDir()
		left := filepath.Join(dir, "20260101T000000.000Z-timeout.rec.part")
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-ago)
		if err := os.Chtimes(left, at, at); err != nil {
			t.Fatal(err)
		}
		if _, err := blackbox.New(blackbox.Config{Records: 1000, Dir: dir, Size: 1 << 30, Log: slog.Default()}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(strings.TrimSuffix(left, ".part")); err != nil {
			t.Errorf("%v ago: %v", ago, err)
		}
	}
}

// The endpoint has what is in memory, or the latest part of it.
func TestServeHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, t.TempDir())
		defer g.stop()
		time.Sleep(200*time.Second + time.Millisecond)
		for last, want := range map[string]time.Duration{"": 0, "?last=1m": 141 * time.Second, "?last=10m": 0} {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest("GET", "/-/recording"+last, nil))
			if first, end := span(t, w.Body); first != want || end != 200*time.Second {
				t.Errorf("%q: from %v to %v", last, first, end)
			}
			if h := w.Header(); h.Get("Content-Disposition") != "attachment; filename=20000101T000320.001Z-now.rec" {
				t.Errorf("%v", h)
			}
		}
		for _, last := range []string{"x", "-1m", "5"} {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest("GET", "/-/recording?last="+last, nil))
			if w.Code != 400 || !strings.Contains(w.Body.String(), "want a time, such as 5m") {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		}
	})
	w := httptest.NewRecorder()
	(*blackbox.Box)(nil).ServeHTTP(w, httptest.NewRequest("GET", "/-/recording", nil))
	if w.Code != 404 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// A file goes on while the service drains, and changes are not watched for any more.
func TestAFileGoesOnWhileTheServiceDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		box, err := blackbox.New(blackbox.Config{Records: 1000, Dir: dir, Size: 16 << 20, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		watched := false
		end := box.Start(ctx, func(ctx context.Context) {
			<-ctx.Done()
			watched = true
		})
		box.Note("worse")
		synctest.Wait()
		leave()
		time.Sleep(10 * time.Second)
		rec := box.Recorder()
		rec.Add(&recording.Record{Intended: rec.Now(), Start: rec.Now(), End: rec.Now(), Class: rec.Class("GET /a")})
		end()
		g := &rig{t: t, Box: box, dir: dir}
		if _, last := g.span(g.files()[0]); last != 10*time.Second || !watched {
			t.Errorf("the last record is of %v, watched until the end: %t", last, watched)
		}
	})
}

// Without files, changes are not watched for, and there are no metrics of files.
func TestWatchOnlyForFiles(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		synctest.Test(t, func(t *testing.T) {
			box, err := blackbox.New(blackbox.Config{Records: 1000, Dir: dir, Size: 16 << 20, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			watched, over := false, false
			end := box.Start(t.Context(), func(ctx context.Context) {
				watched = true
				<-ctx.Done()
				over = true
			})
			synctest.Wait()
			end()
			if want := dir != ""; watched != want || over != want {
				t.Errorf("%q: watched %t, ended %t: want %t", dir, watched, over, want)
			}
			if got := (&rig{Box: box, t: t}).metrics(); (got == "0") != (dir == "") {
				t.Errorf("%q: metrics %s", dir, got)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]blackbox.Config{
		"--recordings needs --records":                                         {Dir: t.TempDir()},
		"--recordings-size=1MiB: must be at least 8676608 with --records=1000": {Records: 1000, Dir: t.TempDir(), Size: 1 << 20},
		"--records=-1: must be in [0, 67108864]":                               {Records: -1},
	} {
		if _, err := blackbox.New(cfg); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
}
