// Package routers tests its directories as programs.
package routers

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestPrograms(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./chi", "./echo", "./gin", "./gorilla", "./stdmux").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	programs, err := os.ReadDir(bin)
	if err != nil || len(programs) != 5 {
		t.Fatalf("%v, %v", programs, err)
	}
	for _, p := range programs {
		t.Run(p.Name(), func(t *testing.T) {
			program := exec.Command(filepath.Join(bin, p.Name()))
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				program.Process.Kill()
				program.Wait()
			}()
			resp := get(t)
			for begun := time.Now(); resp == nil && time.Since(begun) < 20*time.Second; resp = get(t) {
				time.Sleep(10 * time.Millisecond)
			}
			for n := range 5 { // at once
				if resp == nil || resp.StatusCode != http.StatusOK || resp.Header.Get("RateLimit") == "" {
					t.Fatalf("request %d: %+v", n+1, resp)
				}
				resp = get(t)
			}
			if resp == nil || resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("request 6: %+v", resp)
			}
		})
	}
}

// get returns a response of the program that runs, without its body; nil if there is none.
func get(t *testing.T) *http.Response {
	resp, err := http.Get("http://127.0.0.1:8083/hello/ada")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusOK && string(text) != "hello, ada\n" {
		t.Errorf("%q, %v", text, err)
	}
	return resp
}
