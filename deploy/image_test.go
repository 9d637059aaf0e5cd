package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// An image has the parts of an OCI image that the test reads.
type image struct {
	Config struct {
		User            string
		Env             []string
		Entrypoint, Cmd []string
		ExposedPorts    map[string]struct{}
	}
	files map[string]*tar.Header
	root  string // the directory with its files
}

// The image that is built without Docker is the one of the Dockerfile: its files, unpacked, run as its user and
// nothing else.
func TestImage(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "weir.oci.tar")
	cmd := exec.Command("go", "run", "./image", "-root", "../..", "-o", archive)
	cmd.Dir = "../internal/tools"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	m := unpack(t, archive, strings.TrimSpace(string(out)))
	if _, ok := m.Config.ExposedPorts["8081/tcp"]; !ok || !slices.Equal(m.Config.Entrypoint, []string{"/weir"}) || len(m.Config.Cmd) == 0 ||
		!slices.Contains(m.Config.Env, "PORT=8080") || m.Config.User != "65532:65532" {
		t.Errorf("%+v: want what the Dockerfile says", m.Config)
	}
	state := m.files["var/lib/weir/"]
	if state == nil || strconv.Itoa(state.Uid)+":"+strconv.Itoa(state.Gid) != m.Config.User {
		t.Errorf("%+v: want a directory of the user", state)
	}
	certs, err := os.ReadFile(filepath.Join(m.root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(certs) {
		t.Errorf("no public authorities: %v", err)
	}
	for _, args := range [][]string{
		append(slices.Clone(m.Config.Cmd), "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"),
		{"proxy", "--origin", "http://127.0.0.1:1", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"},
	} {
		args = append(args, "--log-format", "json", "--drain-delay", "0s")
		c := container{args: args, env: m.Config.Env, root: m.root}
		p := c.start(t)
		awaitReady(t, http.DefaultClient, p, http.StatusOK)
		stop(t, []*process{p})
	}
	if _, err := os.Stat(filepath.Join(m.root, "var/lib/weir/state")); err != nil {
		t.Error(err)
	}
}

// confine lets a process see the files of a directory alone, as the user 65532.
func confine(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}},
	}
}

// unpack returns the image of an archive, with its files in a directory. It checks all digests.
func unpack(t *testing.T, archive, digest string) (m image) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parts := map[string][]byte{}
	eachFile(t, file, func(h *tar.Header, data []byte) { parts[h.Name] = data })
	blob := func(digest string) []byte {
		t.Helper()
		data := parts["blobs/"+strings.Replace(digest, ":", "/", 1)]
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != digest {
			t.Fatalf("no blob %s", digest)
		}
		return data
	}
	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	unmarshal(t, parts["index.json"], &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Digest != digest {
		t.Fatalf("%+v: want the image %s", index, digest)
	}
	unmarshal(t, blob(digest), &manifest)
	unmarshal(t, blob(manifest.Config.Digest), &m)
	m.files, m.root = map[string]*tar.Header{}, t.TempDir()
	for _, layer := range manifest.Layers {
		r, err := gzip.NewReader(bytes.NewReader(blob(layer.Digest)))
		if err != nil {
			t.Fatal(err)
		}
		eachFile(t, r, func(h *tar.Header, data []byte) {
			m.files[h.Name] = h
			path := filepath.Join(m.root, h.Name)
			if h.Typeflag == tar.TypeDir {
				err = os.MkdirAll(path, 0o755)
			} else {
				err = os.WriteFile(path, data, h.FileInfo().Mode())
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	return m
}

func eachFile(t *testing.T, archive io.Reader, do func(h *tar.Header, data []byte)) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		do(h, data)
	}
}

func unmarshal(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}
