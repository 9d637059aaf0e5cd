package deploy_test

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ocireg "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/yaml"
)

// A release of one platform, made twice in two folders, has the same files. Their checksums have the signature of the
// key, each binary knows its tag, and the bills of materials have each of its modules.
func TestRelease(t *testing.T) {
	key := signingKey(t)
	first, commit, at := release(t, key)
	second, _, _ := release(t, key)
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(second, "SHA256SUMS")); err != nil || !bytes.Equal(sums, again) {
		t.Errorf("%v: the checksums of two builds differ:\n%s\n%s", err, sums, again)
	}
	run(t, first, "gpg", "--batch", "--verify", "SHA256SUMS.sig", "SHA256SUMS")
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		listed[strings.Fields(line)[1]] = true
	}

	platform := "_linux_" + runtime.GOARCH
	version := "v0.9.0 (commit " + commit + " of " + at + ", " + runtime.Version() + ", linux/" + runtime.GOARCH + ")\n"
	for _, name := range []string{"weir", "weirlab"} {
		dir := t.TempDir()
		run(t, dir, "tar", "-xzf", filepath.Join(first, name+platform+".tar.gz"))
		if got, want := run(t, dir, "./"+name, "--version"), name+" "+version; got != want {
			t.Errorf("the archive has %swant %s", got, want)
		}
		info, err := buildinfo.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{".spdx.json", ".cdx.json"} {
			document := name + platform + format
			text, err := os.ReadFile(filepath.Join(first, document))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range info.Deps {
				if !strings.Contains(string(text), `"`+m.Path+`"`) {
					t.Errorf("%s does not have %s", document, m.Path)
				}
			}
			if !listed[document] {
				t.Errorf("%s has no checksum", document)
			}
		}
		page, err := os.ReadFile(filepath.Join(dir, "man1", name+".1"))
		if want := ".TH " + strings.ToUpper(name) + ` 1 "2026-01-02" "` + name + " v0.9.0\""; err != nil || !strings.HasPrefix(string(page), want) {
			t.Errorf("%v: the page begins with %.60q: want %q", err, page, want)
		}
		for _, file := range []string{"LICENSE", "README.md", "schema/scenario.schema.json", "completions/" + name + ".bash", "completions/_" + name, "completions/" + name + ".fish"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
		if !listed[name+platform+".tar.gz"] {
			t.Errorf("the archive of %s has no checksum", name)
		}
	}

	for _, format := range []string{".deb", ".rpm", ".apk"} {
		if !listed["weir"+platform+format] {
			t.Errorf("no package %s:\n%s", format, sums)
		}
	}
	dir := t.TempDir()
	run(t, dir, "dpkg-deb", "--extract", filepath.Join(first, "weir"+platform+".deb"), ".")
	if got, want := run(t, dir, "usr/bin/weir", "--version"), "weir "+version; got != want {
		t.Errorf("the package has %swant %s", got, want)
	}
	run(t, dir, "usr/bin/weir", "check", "etc/weir/rules.yaml", "login:a")
	for _, name := range []string{
		"usr/lib/systemd/system/weir.service", "usr/lib/systemd/system/weir-proxy.service", "usr/lib/sysusers.d/weir.conf",
		"usr/share/bash-completion/completions/weir", "usr/share/zsh/vendor-completions/_weir", "usr/share/fish/vendor_completions.d/weir.fish",
		"usr/share/man/man1/weir.1.gz", "usr/share/man/man1/weir-serve.1.gz",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"weir_linux_amd64.oci.tar", "weir_linux_arm64.oci.tar", "weir_chart.oci.tar", "weir_chart.tgz", "weir_site.tgz"} {
		if !listed[name] {
			t.Errorf("%s has no checksum", name)
		}
	}
	checkProvenance(t, first, commit, string(sums))
	made := filepath.Join(filepath.Dir(first), "bin/release")
	host, pushed := pushAll(t, made)
	if got, want := run(t, pullImage(t, host+"/weir", pushed["image"]).root, "./weir", "--version"), "weir "+version; got != want {
		t.Errorf("the image has %swant %s", got, want)
	}
	checkChart(t, made, host, pushed["chart"])
	checkSite(t, made)

	files, err := filepath.Glob(filepath.Join(made, "weir_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // as on the page of a release
		if err := os.Link(file, filepath.Join(first, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HELM", helm(t, first))
	t.Log(run(t, ".", "./fiveways", first))
}

// checkProvenance fails t unless the signed statement names the source and every file of the checksums.
func checkProvenance(t *testing.T, dist, commit, sums string) {
	t.Helper()
	run(t, dist, "gpg", "--batch", "--verify", "SHA256SUMS.intoto.json.sig", "SHA256SUMS.intoto.json")
	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS.intoto.json"))
	if err != nil {
		t.Fatal(err)
	}
	type resource struct {
		Name, URI string
		Digest    map[string]string
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []resource
		Predicate     struct {
			BuildDefinition struct{ ResolvedDependencies []resource }
		}
	}
	unmarshal(t, text, &statement)
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("%s: a statement of another kind", text)
	}
	named := ""
	for _, s := range statement.Subject {
		named += s.Digest["sha256"] + "  " + s.Name + "\n"
	}
	if named != sums {
		t.Errorf("the statement is about\n%s\nwant\n%s", named, sums)
	}
	from := statement.Predicate.BuildDefinition.ResolvedDependencies
	if len(from) != 1 || from[0].URI != "git+https://github.com/weir-go/weir@refs/tags/v0.9.0" || from[0].Digest["gitCommit"] != commit {
		t.Errorf("%+v: want the commit %s", from, commit)
	}
}

// pushAll pushes the images and the chart to a registry, twice, as a job does that runs again. It returns the address of the
// registry, and the digests that are printed.
func pushAll(t *testing.T, made string) (host string, pushed map[string]string) {
	t.Helper()
	server := httptest.NewServer(ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	push := func() string {
		return run(t, "../internal/tools", "go", "run", "./push", "-from", made, "-to", host+"/weir-go", "-version", "v0.9.0")
	}
	text := push()
	if again := push(); again != text {
		t.Errorf("a second push says %s: want %s", again, text)
	}
	pushed = map[string]string{}
	for line := range strings.Lines(text) {
		kind, digest, _ := strings.Cut(strings.TrimSpace(line), "=")
		pushed[kind] = digest
	}
	return host + "/weir-go", pushed
}

// pullImage returns the image of this architecture that a registry has for the version and as the latest one, with the digest
// of the index of both architectures.
func pullImage(t *testing.T, repository, digest string) image {
	t.Helper()
	for _, tag := range []string{"0.9.0", "latest"} {
		ref, err := name.ParseReference(repository + ":" + tag)
		must(t, err)
		index, err := remote.Index(ref)
		must(t, err)
		got, err := index.Digest()
		must(t, err)
		manifest, err := index.IndexManifest()
		must(t, err)
		if got.String() != digest || len(manifest.Manifests) != 2 {
			t.Errorf("%s is %s of %d platforms: want %s of two", ref, got, len(manifest.Manifests), digest)
		}
	}
	ref, err := name.ParseReference(repository + "@" + digest)
	must(t, err)
	pulled, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	must(t, err)
	dir := t.TempDir()
	at, err := layout.Write(dir, empty.Index)
	must(t, err)
	must(t, at.AppendImage(pulled))
	archive := filepath.Join(t.TempDir(), "pulled.tar")
	run(t, dir, "tar", "-cf", archive, "blobs", "index.json", "oci-layout")
	one, err := pulled.Digest()
	must(t, err)
	return unpack(t, archive, one.String())
}

// checkChart fails t unless Helm pulls the packaged chart from a registry, and renders it as it renders the folder.
func checkChart(t *testing.T, made, host, digest string) {
	t.Helper()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "credentials")))
	must(t, err)
	pulled, err := client.Pull(host + "/charts/weir:0.9.0")
	must(t, err)
	if pulled.Manifest.Digest != digest {
		t.Errorf("the registry has the chart %s: want %s", pulled.Manifest.Digest, digest)
	}
	packed, err := os.ReadFile(filepath.Join(made, "weir_chart.tgz"))
	must(t, err)
	if !bytes.Equal(pulled.Chart.Data, packed) || pulled.Chart.Meta.Name != "weir" || pulled.Chart.Meta.Version != "0.9.0" {
		t.Errorf("the registry has %d bytes of %+v: want the packaged chart", len(pulled.Chart.Data), pulled.Chart.Meta)
	}
	want, err := render("a", unguarded)
	must(t, err)
	got, err := renderChart(filepath.Join(made, "weir_chart.tgz"), "a", unguarded)
	must(t, err)
	for name, text := range want {
		want[name] = strings.ReplaceAll(text, "image: ghcr.io/weir-go/weir:0.1.0\n", "image: ghcr.io/weir-go/weir:0.9.0\n")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the packaged chart renders\n%s\nwant\n%s", got, want)
	}
}

// checkSite fails t unless the workflow that publishes the site joins that of the release and that of the checkout.
func checkSite(t *testing.T, made string) {
	t.Helper()
	text, err := os.ReadFile("../.github/workflows/site.yml")
	must(t, err)
	var workflow struct {
		Jobs struct {
			Build struct{ Steps []struct{ Name, Run string } }
		}
	}
	must(t, yaml.Unmarshal(text, &workflow))
	bin, dir := t.TempDir(), t.TempDir()
	gh := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n'release list '*) echo v0.9.0 ;;\n'release download v0.9.0 --pattern weir_site.tgz --output -') cat %s/weir_site.tgz ;;\n*) exit 1 ;;\nesac\n", made)
	must(t, os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o700))
	done := 0
	for _, step := range workflow.Jobs.Build.Steps {
		if step.Name == "the sites of the releases" {
			run(t, dir, "env", "PATH="+bin+":"+os.Getenv("PATH"), "bash", "-eo", "pipefail", "-c", step.Run)
			done++
		}
	}
	public := filepath.Join(dir, "site/public")
	run(t, "../site", "env", "GOWORK=off", "go", "run", ".", "-out", public)
	versions, err := os.ReadFile(filepath.Join(public, "versions.json"))
	if err != nil || string(versions) != `["v0.9.0","next"]` || done != 1 {
		t.Errorf("%v: the site has the versions %s after %d steps", err, versions, done)
	}
	for _, name := range []string{"schema/rules.schema.json", "v/v0.9.0/playground.html", "v/v0.9.0/sim.wasm.gzip", "v/next/playground.html"} {
		if _, err := os.Stat(filepath.Join(public, name)); err != nil {
			t.Error(err)
		}
	}
}

// unguarded are the values without a random secret.
var unguarded = values{"admin": values{"auth": false}}

// helm returns a program that answers the one command of fiveways for Helm, about the chart in dist.
func helm(t *testing.T, dist string) (path string) {
	t.Helper()
	packed := filepath.Join(dist, "weir_chart.tgz")
	files, err := renderChart(packed, "weir", unguarded)
	must(t, err)
	path = filepath.Join(t.TempDir(), "helm")
	must(t, os.WriteFile(path+".yaml", []byte(strings.Join(documents(files), "\n---\n")), 0o600))
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = 'template weir %s --set admin.auth=false' ] && cat %s.yaml\n", packed, path)
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// signingKey makes a key that lives as long as the test, and returns its name.
func signingKey(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // a socket in it must have a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() {
		run(t, home, "gpgconf", "--kill", "all")
		os.RemoveAll(home)
	})
	const name = "release-test@localhost"
	run(t, home, "gpg", "--batch", "--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never")
	return name
}

// release tags a copy of this checkout, and returns the folder with its release for Linux and this architecture, and the
// commit with its time.
func release(t *testing.T, key string) (dist, commit, at string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Format(time.RFC3339)
	for _, v := range []string{"GOFLAGS=-pgo=off", "WEIR_SIGNING_KEY=" + key, "GIT_AUTHOR_DATE=" + when, "GIT_COMMITTER_DATE=" + when} {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	run(t, dir, "sh", "-c", `tar -C "$1" --exclude=./.git --exclude=./bin --exclude=./dist -cf - . | tar -xf -`, "sh", root)
	run(t, dir, "git", "init", "-q", "-b", "main")
	run(t, dir, "git", "remote", "add", "origin", "https://github.com/weir-go/weir.git")
	run(t, dir, "git", "add", "-A")
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "-m", "a release")
	for _, tag := range []string{"v0.9.0", "metric/v0.9.0", "service/v0.9.0", "service/lab/v0.9.0"} {
		run(t, dir, "git", "tag", tag)
	}

	config, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one := regexp.MustCompile(`(goos: &goos|goarch: &goarch) \[.*\]`).ReplaceAllStringFunc(string(config), func(line string) string {
		if strings.HasPrefix(line, "goos") {
			return "goos: &goos [linux]"
		}
		return "goarch: &goarch [" + runtime.GOARCH + "]"
	})
	configured := filepath.Join(t.TempDir(), "goreleaser.yaml")
	if err := os.WriteFile(configured, []byte(one), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "make", "release", "ARGS=--skip=scoop --config "+configured) // the manifest needs a binary for Windows
	return filepath.Join(dir, "dist"), strings.TrimSpace(run(t, dir, "git", "rev-parse", "HEAD")), when
}

// run runs a program in a folder, and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, tail(&out), tail(&log))
	}
	return out.String()
}

// tail returns the last lines of a log.
func tail(log *bytes.Buffer) string {
	var lines []string
	for s := bufio.NewScanner(log); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-30):], "\n") + "\n"
}
