package main

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A fuzz test in NAME_test that uses functions of other test files and virtual time gets the input of libFuzzer.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module toy\n\ngo 1.26.0\n",
		"toy.go":         "package toy\n\nfunc split(s string) int { return len(s) }\n",
		"export_test.go": "package toy\n\nvar Split = split\n",
		"helper_test.go": "package toy_test\n\nimport (\"testing\"; \"time\")\n\nfunc wait(t testing.TB) { time.Sleep(time.Hour) }\n",
		"fuzz_test.go": `package toy_test

import ("testing"; "testing/synctest"; "toy")

func NAME(f *testing.F) {
	f.Add(uint8(1), "seed", true, []byte("seed"))
	f.Fuzz(func(t *testing.T, number uint8, text string, yes bool, rest []byte) {
		synctest.Test(t, func(t *testing.T) {
			wait(t)
			t.Logf("%d %s %t %s", number, text, yes, rest)
			if toy.Split(text) > 2 {
				t.Fatal("found")
			}
		})
	})
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(text, "NAME", "FuzzToy", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	archive, program := filepath.Join(t.TempDir(), "toy.a"), filepath.Join(t.TempDir(), "toy")
	if err := build(archive, dir, "FuzzToy"); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*ossfuzz*")); len(left) > 0 || err != nil {
		t.Errorf("%v, %v: the directory of the package has other files", left, err)
	}
	if out, err := exec.Command("cc", "-o", program, "testdata/libfuzzer.c", archive, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for input, failure := range map[string]string{
		"A\x02\x01": "", // no argument of a C program has a zero
		"A\x02\x01" + strings.Repeat("b", 0x102) + "\x03rest": "65 " + strings.Repeat("b", 0x102) + " true rest",
	} {
		out, err := exec.Command(program, input).CombinedOutput()
		if (err != nil) != (failure != "") || !strings.Contains(string(out), failure) || strings.Contains(string(out), "found") != (failure != "") {
			t.Errorf("%q: %v: %s: want %q", input, err, out, failure)
		}
	}
}

// OSS-Fuzz has each fuzz test of the repository, no two under one name.
func TestProject(t *testing.T) {
	want := map[string]bool{}
	fuzz := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	err := filepath.WalkDir("../../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range fuzz.FindAllStringSubmatch(string(text), -1) {
			dir, _ := filepath.Rel("../../..", filepath.Dir(path))
			want[strings.ReplaceAll(dir, "/", "_")+"_"+name[1]] = true
		}
		return err
	})
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}

	dir := t.TempDir()
	for name, text := range map[string]string{
		"go":         "#!/bin/sh\ncp \"${0%/*}/ossfuzz.sh\" \"$WORK/ossfuzz\"\n",
		"ossfuzz.sh": "#!/bin/sh\ntest -d \"$3\" && : >\"$2\"\n",
		"c++":        "#!/bin/sh\n[ \"$1 $2\" = '-O1 engine.a' ] && mv \"$3\" \"$5\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("project/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Dir = "../../.."
	work, out := t.TempDir(), t.TempDir()
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "WORK=" + work, "OUT=" + out, "CXX=c++", "CXXFLAGS=-O1", "LIB_FUZZING_ENGINE=engine.a"}
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(got, wanted) {
		t.Errorf("OSS-Fuzz has\n%s\nwant\n%s", got, wanted)
	}
}
