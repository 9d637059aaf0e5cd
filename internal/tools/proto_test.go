package tools_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const api = "../../api"

// buf runs buf in the folder of the API, and returns what it says.
func buf(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "buf", args...)
	cmd.Dir = api
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatalf("make need installs buf: %v", err)
	}
	return string(out), err == nil
}

// The API keeps to the rules of buf, and breaks no client of the release before. The committed Go code is the one that make proto writes.
func TestProto(t *testing.T) {
	if said, ok := buf(t, "lint"); !ok {
		t.Errorf("buf lint: %s", said)
	}
	if said, ok := buf(t, "breaking", "--against", "released.json"); !ok {
		t.Errorf("buf breaking: %s", said)
	}
	made := t.TempDir()
	if said, ok := buf(t, "generate", "-o", made); !ok {
		t.Fatalf("buf generate: %s", said)
	}
	files, err := filepath.Glob(made + "/service/internal/transport/weirapi/weirv1/*")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v: want two files", files, err)
	}
	for _, path := range files {
		name, _ := filepath.Rel(made, path)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../..", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what make proto writes: %v", name, err)
		}
	}
}

// A change that breaks clients is found.
func TestProtoBreaks(t *testing.T) {
	text, err := os.ReadFile(api + "/weir/v1/weir.proto")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/weir/v1", 0o700); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte("int64 retry_after_ms = 7;"), []byte("string retry_after_ms = 7;"), 1)
	if bytes.Equal(changed, text) {
		t.Fatal("nothing is changed")
	}
	if err := os.WriteFile(dir+"/weir/v1/weir.proto", changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, ok := buf(t, "breaking", dir, "--against", "released.json"); ok || !bytes.Contains([]byte(said), []byte("retry_after_ms")) {
		t.Errorf("%t: %s", ok, said)
	}
}
