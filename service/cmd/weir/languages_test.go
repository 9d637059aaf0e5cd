//go:build system

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// The recipes run, with clients that are generated of the proto where they use it.
func TestRecipes(t *testing.T) {
	s := serving(t, "--rules", root+"/examples/clients/rules.yaml", "--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(s.resp())
	fatal(t, err)
	grpc := s.grpcAddress()
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
	text, err := os.ReadFile(clientDir(t, "java") + "/classpath")
	fatal(t, err)
	classpath := string(text)
	t.Setenv("WEIR_API", api)
	for _, r := range []struct {
		name, dir string
		command   []string
	}{
		{"Python over HTTP", python, []string{interpreter, "over_http.py", s.public}},
		{"Python over gRPC", python, []string{interpreter, "over_grpc.py", grpc}},
		{"Python over RESP", python, []string{interpreter, "over_resp.py", port}},
		{"TypeScript over HTTP", typescript, []string{tsx, "over_http.ts", s.public}},
		{"TypeScript over gRPC", typescript, []string{tsx, "over_grpc.ts", "http://" + grpc}},
		{"TypeScript over RESP", typescript, []string{tsx, "over_resp.ts", port}},
		{"Java over HTTP", java, []string{"java", "OverHttp.java", s.public}},
		{"Java over RESP", java, []string{"java", "OverResp.java", port}},
		{"Java over gRPC", java, []string{"java", "-cp", java + "/grpc/target/classes:" + classpath, "OverGrpc", grpc}},
		{"Rust over HTTP", rust, []string{"cargo", "run", "--quiet", "--locked", "--offline", "--bin", "over_http", s.public}},
		{"Rust over RESP", rust, []string{"cargo", "run", "--quiet", "--locked", "--offline", "--bin", "over_resp", port}},
		{"Rust over gRPC", in("rust-grpc"), []string{"cargo", "run", "--quiet", "--locked", "--offline", "http://" + grpc}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if got := execute(t, r.dir, r.command...); got != recipe {
				t.Errorf("it prints\n%s\nwant\n%s", got, recipe)
			}
		})
	}
}
