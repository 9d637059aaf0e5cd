package rulefile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// do fails the test on the first step that failed.
func do(t *testing.T, steps ...error) {
	t.Helper()
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write writes a file, at the time of the bubble.
func write(path, text string) error {
	return first(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Now(), time.Now()))
}

// swap makes a symbolic link point elsewhere, in one step.
func swap(target, link string) error {
	if err := os.Symlink(target, link+".new"); err != nil {
		return err
	}
	return os.Rename(link+".new", link)
}

// ways are the ways in which what is watched is changed: each in a directory of
// its own, in which it first makes what there is to watch.
var ways = []struct {
	name  string
	watch string // in the directory
	make  func(t *testing.T, dir string)
	steps []func(dir string) error // each is one change
}{
	{"a file is written", "rules.yaml", made, []func(string) error{
		func(dir string) error { return write(dir+"/rules.yaml", "2") },
		func(dir string) error { return write(dir+"/rules.yaml", "3") },
	}},
	{"a file is replaced, as editors do", "rules.yaml", made, []func(string) error{
		func(dir string) error {
			do := write(dir+"/tmp", "2")
			return first(do, os.Rename(dir+"/tmp", dir+"/rules.yaml"))
		},
		func(dir string) error {
			do := write(dir+"/tmp", "3")
			return first(do, os.Rename(dir+"/tmp", dir+"/rules.yaml"))
		},
	}},
	{"a file goes and comes back", "rules.yaml", made, []func(string) error{
		func(dir string) error { return os.Remove(dir + "/rules.yaml") },
		func(dir string) error { return write(dir+"/rules.yaml", "1") },
	}},
	{"a file that links to another one, which is written", "rules.yaml", linked, []func(string) error{
		func(dir string) error { return write(dir+"/far/away.yaml", "2") },
		func(dir string) error { return write(dir+"/far/away.yaml", "3") },
	}},
	{"a file that links to another one, and then to a third", "rules.yaml", linked, []func(string) error{
		func(dir string) error {
			do := write(dir+"/third.yaml", "2")
			return first(do, swap("third.yaml", dir+"/rules.yaml"))
		},
		func(dir string) error { return write(dir+"/third.yaml", "3") },
		func(dir string) error { return swap("far/away.yaml", dir+"/rules.yaml") },
		func(dir string) error { return swap("third.yaml", dir+"/rules.yaml") },
	}},
	{"a file that links to another directory, where it is written", "rules.yaml", linked, []func(string) error{
		func(dir string) error {
			return first(os.Mkdir(dir+"/new", 0o700), write(dir+"/new/there.yaml", "2"), swap("new/there.yaml", dir+"/rules.yaml"))
		},
		func(dir string) error { return write(dir+"/new/there.yaml", "3") },
		func(dir string) error { return write(dir+"/new/there.yaml", "4") },
	}},
	{"a ConfigMap, by its file", "rules.yaml", mounted, swaps},
	{"a ConfigMap, by its directory", "", mounted, swaps},
	{"a directory that gets a file, and loses it", "", made, []func(string) error{
		func(dir string) error { return write(dir+"/more.yaml", "1") },
		func(dir string) error { return os.Rename(dir+"/more.yaml", dir+"/rest.yaml") },
		func(dir string) error { return os.Remove(dir + "/rest.yaml") },
	}},
	{"an empty directory gets a file", "", func(*testing.T, string) {}, []func(string) error{
		func(dir string) error { return write(dir+"/rules.yaml", "1") },
		func(dir string) error { return os.Remove(dir + "/rules.yaml") },
		func(dir string) error { return write(dir+"/rules.yaml", "1") },
	}},
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func made(t *testing.T, dir string) { do(t, write(dir+"/rules.yaml", "1")) }

func linked(t *testing.T, dir string) {
	do(t, os.Mkdir(dir+"/far", 0o700), write(dir+"/far/away.yaml", "1"), os.Symlink("far/away.yaml", dir+"/rules.yaml"))
}

// mounted is a directory as Kubernetes mounts a ConfigMap.
func mounted(t *testing.T, dir string) {
	do(t, os.Mkdir(dir+"/..1", 0o700), write(dir+"/..1/rules.yaml", "1"),
		os.Symlink("..1", dir+"/..data"), os.Symlink("..data/rules.yaml", dir+"/rules.yaml"))
}

// swaps are two changes of a ConfigMap. What was there before stays, so that
// nothing but the link tells.
var swaps = []func(string) error{
	func(dir string) error {
		return first(os.Mkdir(dir+"/..2", 0o700), write(dir+"/..2/rules.yaml", "2"),
			swap("..2", dir+"/..data"))
	},
	func(dir string) error {
		return first(os.Mkdir(dir+"/..3", 0o700), write(dir+"/..3/rules.yaml", "3"),
			swap("..3", dir+"/..data"))
	},
}

// Sizes and times tell of every change; the polls of the content are too far away.
func TestWatch(t *testing.T) {
	for _, tt := range ways {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				tt.make(t, dir)
				told := watch(t, filepath.Join(dir, tt.watch), 1000*time.Hour)
				for _, step := range tt.steps {
					do(t, step(dir))
					<-told
				}
			})
		})
	}
}

// watch runs a Watcher until the test ends.
func watch(t *testing.T, path string, interval time.Duration) (told chan bool) {
	told = make(chan bool, 100)
	w := NewWatcher([]string{path}, interval)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		w.Run(t.Context(), func() { told <- true })
	}()
	t.Cleanup(func() { <-ended })
	return told
}

// A look sees every change once, and nothing else.
func TestLook(t *testing.T) {
	for _, tt := range ways {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			w := NewWatcher([]string{filepath.Join(dir, tt.watch)}, 1000*time.Hour)
			for i, step := range tt.steps {
				if w.contentChanged() {
					t.Errorf("before step %d: a change", i)
				}
				do(t, step(dir))
				if !w.contentChanged() {
					t.Errorf("step %d: no change", i)
				}
			}
			if tt.watch == "" {
				return
			}
			text, err := os.ReadFile(dir + "/rules.yaml")
			do(t, err, write(dir+"/rules.yaml", string(text)), write(dir+"/other.yaml", "1"))
			if w.contentChanged() {
				t.Error("the same again, and another file: a change")
			}
		})
	}
}

// A directory above that of the file is replaced.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		version := func(n int) string { return fmt.Sprint(dir, "/version", n) }
		for n := range 5 {
			do(t, os.MkdirAll(version(n)+"/b", 0o700), write(version(n)+"/b/rules.yaml", fmt.Sprint(n)))
		}
		do(t, os.Rename(version(0), dir+"/a"))
		told := watch(t, dir+"/a/b/rules.yaml", time.Millisecond)
		for n := 1; n < 5; n++ { // the first may be seen because the watching begins
			do(t, os.Rename(dir+"/a", fmt.Sprint(dir, "/old", n)), os.Rename(version(n), dir+"/a"))
			<-told
		}
	})
}

// A change between the reading and the watching is not missed.
func TestWatchBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/rules.yaml"
		do(t, write(path, "1"))
		w := NewWatcher([]string{path}, 1000*time.Hour)
		do(t, write(path, "2"))
		told := make(chan bool, 1)
		go w.Run(t.Context(), func() { told <- true })
		<-told
	})
}

// Links that lead in a circle lead nowhere.
func TestCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		do(t, os.Symlink("b", dir+"/a"), os.Symlink("a", dir+"/b"))
		told := watch(t, dir+"/a", 1000*time.Hour)
		do(t, os.Remove(dir+"/a"), write(dir+"/a", "1"))
		<-told
	})
}

// A file of the same size and time is compared by its content, at the interval.
func TestPollComparesContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/rules.yaml"
		then := time.Unix(1e9, 0)
		do(t, write(path, "1"), os.Chtimes(path, then, then))
		told := watch(t, path, time.Millisecond)
		for n := range 3 { // the first change may be seen because the watching begins
			time.Sleep(3 * statInterval)
			do(t, write(path+".new", fmt.Sprint(2+n)), os.Chtimes(path+".new", then, then), os.Rename(path+".new", path))
			<-told
		}
	})
}
