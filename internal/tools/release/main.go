// Release builds a module proxy in the local file system from a checkout, as if
// each module of it were tagged with one version, and checks that users can
// install the binaries and import every module from there:
//
//	go run ./release -root ../.. -version v0.1.0
//
// The checkout is not changed. Modules that are not ours come from the module
// cache, or from where GOPROXY says.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const root = "github.com/weir-go/weir"

// modules lists the modules of a release, each after the modules it requires.
var modules = []string{
	"", "grpclimit", "metric", "redislimit", "weirotel",
	"router/weirchi", "router/weirecho", "router/weirecho4", "router/weirgin", "router/weirgorilla",
	"service", "service/lab",
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	dir := flag.String("root", ".", "the root of the checkout")
	version := flag.String("version", "v0.1.0", "the version that all modules get")
	keep := flag.String("keep", "", "leave the proxy in this directory")
	flag.Parse()
	if err := run(*dir, *version, *keep); err != nil {
		log.Fatal(err)
	}
}

func run(dir, version, keep string) (err error) {
	work, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	proxy := filepath.Join(work, "proxy")
	if keep != "" {
		if proxy, err = filepath.Abs(keep); err != nil {
			return err
		}
	}
	tree := filepath.Join(work, "tree")
	if err := copyTracked(dir, tree); err != nil {
		return err
	}
	env, err := environment(work, proxy)
	if err != nil {
		return err
	}
	for _, name := range modules {
		fmt.Printf("== publish %s %s\n", modulePath(name), version)
		if err := publish(env, tree, name, version, proxy); err != nil {
			return fmt.Errorf("%s: %w", modulePath(name), err)
		}
	}
	return check(env, work, version)
}

func modulePath(name string) string { return strings.TrimSuffix(root+"/"+name, "/") }

// copyTracked copies the files that git tracks from the checkout.
func copyTracked(from, to string) error {
	out, err := exec.Command("git", "-C", from, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		} else if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// environment returns the environment of go commands that know our modules from
// the proxy only. Their module cache is empty at first, so that no version of
// ours can be an earlier one.
func environment(work, proxy string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(),
		"GOWORK=off",
		"GOMODCACHE="+filepath.Join(work, "cache"),
		"GOBIN="+filepath.Join(work, "bin"),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+others,
		"GOSUMDB=off",
		"GOFLAGS=-modcacherw -trimpath -buildvcs=false",
	), nil
}

// publish writes a module to the proxy as a release would commit it: it requires
// our other modules in the same version, and replaces none.
func publish(env []string, tree, name, version, proxy string) error {
	dir := filepath.Join(tree, name)
	edit := []string{"mod", "edit", "-fmt"}
	for _, before := range modules[:slices.Index(modules, name)] {
		edit = append(edit, "-require="+modulePath(before)+"@"+version, "-dropreplace="+modulePath(before))
	}
	for _, args := range [][]string{edit, {"mod", "tidy"}} {
		if _, err := command(env, dir, args...); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(modulePath(name)), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for suffix, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": text} {
		if err := os.WriteFile(filepath.Join(at, suffix), content, 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	err = zip.CreateFromDir(out, module.Version{Path: modulePath(name), Version: version}, dir)
	return errors.Join(err, out.Close())
}

// programs use one module each; the library's counts its modules, too.
var programs = []struct {
	module, source string
	modules        int // that go list -m all prints; 0: any number
}{
	{"", "import _ \"" + root + "/rate\"\n", 2},
	{"grpclimit", "import _ \"" + root + "/grpclimit\"\n", 0},
	{"metric", "import _ \"" + root + "/metric\"\n", 0},
	{"weirotel", "import _ \"" + root + "/weirotel\"\n", 0},
	{"router/weirchi", "import _ \"" + root + "/router/weirchi\"\n", 4},
	{"router/weirecho", "import _ \"" + root + "/router/weirecho\"\n", 0},
	{"router/weirecho4", "import _ \"" + root + "/router/weirecho4\"\n", 0},
	{"router/weirgin", "import _ \"" + root + "/router/weirgin\"\n", 0},
	{"router/weirgorilla", "import _ \"" + root + "/router/weirgorilla\"\n", 0},
	{"redislimit", "import _ \"" + root + "/redislimit/redis_rate\"\n", 0},
}

// check does what users do, each in an empty directory.
func check(env []string, work, version string) error {
	for _, binary := range []string{"service/cmd/weir", "service/lab/cmd/weirlab"} {
		fmt.Printf("== go install -tags grpcnotrace %s/%s@%s\n", root, binary, version)
		if _, err := command(env, work, "install", "-tags=grpcnotrace", root+"/"+binary+"@"+version); err != nil {
			return err
		}
		said, err := exec.Command(filepath.Join(work, "bin", path.Base(binary)), "--version").Output()
		if err != nil || !strings.Contains(string(said), version) {
			return fmt.Errorf("%s --version says %q, %v: want %s", binary, said, err, version)
		}
		fmt.Print(string(said))
	}
	for _, p := range programs {
		path := modulePath(p.module)
		fmt.Printf("== go get %s@%s\n", path, version)
		dir, err := os.MkdirTemp(work, "app-")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\n"+p.source+"\nfunc main() {}\n"), 0o644); err != nil {
			return err
		}
		listed := ""
		for _, args := range [][]string{
			{"mod", "init", "example.com/app"}, {"get", path + "@" + version}, {"mod", "tidy"}, {"run", "."}, {"list", "-m", "all"},
		} {
			if listed, err = command(env, dir, args...); err != nil {
				return err
			}
		}
		if n := strings.Count(listed, "\n"); p.modules > 0 && n != p.modules {
			return fmt.Errorf("an app that imports %s has %d modules, want %d:\n%s", path, n, p.modules, listed)
		}
	}
	fmt.Println("== the release can be installed")
	return nil
}

// command runs the go command, and returns its output.
func command(env []string, dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
