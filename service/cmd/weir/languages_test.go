//go:build system

package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// recipe is the output of each recipe of docs/languages.md.
const recipe = `allowed
settled 1 0
allowed
allowed
denied over_rate
granted after a wait
leased
refused over_limit
renewed
returned
`

// late is the time in which the rule of that name has another token. A program that is so slow need not wait for it.
const late = 3 * time.Second

var atOnce = strings.Replace(recipe, "after a wait", "at once", 1)

// waits matches metrics if a request has waited.
var waits = regexp.MustCompile(`(?m)^weir_server_wait_seconds_count\{[^}]*rule="late"\} [1-9]`)

// The recipes run, with clients that are generated of the proto where they use it.
func TestRecipes(t *testing.T) {
	rules := root + "/examples/clients/rules.yaml"
	text, err := os.ReadFile(rules)
	fatal(t, err)
	if want := "rate: 1/" + late.String() + ","; !strings.Contains(string(text), want) {
		t.Fatalf("%s\nwant %s", text, want)
	}
	in := func(language string) string {
		dir := filepath.Join(t.TempDir(), language)
		fatal(t, os.CopyFS(dir, os.DirFS(root+"/examples/clients/"+language)))
		return dir
	}
	execute := func(t *testing.T, dir string, command ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s%s", command, err, out, &said)
		}
		return string(out)
	}
	api, err := filepath.Abs(root + "/api")
	fatal(t, err)
	t.Setenv("CARGO_TARGET_DIR", clientDir(t, "rust"))
	python, typescript, java, rust := in("python"), in("typescript"), in("java"), in("rust")
	interpreter := clientDir(t, "python") + "/bin/python"
	execute(t, python, interpreter, "-m", "grpc_tools.protoc", "-I", api, "--python_out=.", "--grpc_python_out=.", "weir/v1/weir.proto")
	fatal(t, os.Symlink(clientDir(t, "typescript")+"/node_modules", typescript+"/node_modules"))
	execute(t, typescript, "buf", "generate", api)
	tsx := typescript + "/node_modules/.bin/tsx"
	execute(t, java+"/grpc", "mvn", "--offline", "--quiet", "--batch-mode", "-Dapi="+api, "compile")
	text, err = os.ReadFile(clientDir(t, "java") + "/classpath")
	fatal(t, err)
	classpath := string(text)
	t.Setenv("WEIR_API", api)
	for _, r := range []struct {
		name, dir string
		address   func(*served) string
		command   []string
	}{
		{"Python over HTTP", python, web, []string{interpreter, "over_http.py"}},
		{"Python over gRPC", python, (*served).grpcAddress, []string{interpreter, "over_grpc.py"}},
		{"Python over RESP", python, port, []string{interpreter, "over_resp.py"}},
		{"TypeScript over HTTP", typescript, web, []string{tsx, "over_http.ts"}},
		{"TypeScript over gRPC", typescript, grpcURL, []string{tsx, "over_grpc.ts"}},
		{"TypeScript over RESP", typescript, port, []string{tsx, "over_resp.ts"}},
		{"Java over HTTP", java, web, []string{"java", "OverHttp.java"}},
		{"Java over RESP", java, port, []string{"java", "OverResp.java"}},
		{"Java over gRPC", java, (*served).grpcAddress, []string{"java", "-cp", java + "/grpc/target/classes:" + classpath, "OverGrpc"}},
		{"Rust over HTTP", rust, web, []string{"cargo", "run", "--quiet", "--locked", "--offline", "--bin", "over_http"}},
		{"Rust over RESP", rust, port, []string{"cargo", "run", "--quiet", "--locked", "--offline", "--bin", "over_resp"}},
		{"Rust over gRPC", in("rust-grpc"), grpcURL, []string{"cargo", "run", "--quiet", "--locked", "--offline"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for slow := true; slow; { // then it runs again, at a server that does not know its keys
				s := serving(t, "--rules", rules, "--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")
				start := time.Now()
				got := execute(t, r.dir, append(slices.Clip(r.command), r.address(s))...)
				waited := waits.MatchString(ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body)
				slow = !waited && got == atOnce && time.Since(start) >= late
				if got != recipe && !slow {
					t.Errorf("it prints\n%s\nwant\n%s", got, recipe)
				}
			}
		})
	}
}

func web(s *served) string { return s.public }

func grpcURL(s *served) string { return "http://" + s.grpcAddress() }

// port returns the port of RESP.
func port(s *served) string {
	_, port, _ := net.SplitHostPort(s.resp())
	return port
}
