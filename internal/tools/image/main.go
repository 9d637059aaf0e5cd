// Image builds the image of deploy/Dockerfile without Docker, as an archive of an OCI image layout:
//
//	go run ./image -root ../.. -o ../../bin/weir.oci.tar
//
// podman load, docker load and skopeo copy oci-archive:… read it. It prints the digest of the image. Two builds of one
// checkout with one version of Go have the same digest.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	root := flag.String("root", ".", "the root of the checkout")
	out := flag.String("o", "weir.oci.tar", "the archive to write")
	arch := flag.String("arch", runtime.GOARCH, "the architecture of the image")
	certs := flag.String("certs", "/etc/ssl/certs/ca-certificates.crt", "the public authorities, for the image")
	flag.Parse()
	digest, err := build(*root, *out, *arch, *certs)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(digest)
}

// build writes the archive, and returns the digest of the image.
func build(root, out, arch, certs string) (digest v1.Hash, err error) {
	dir, err := os.MkdirTemp("", "weir-image")
	if err != nil {
		return digest, err
	}
	defer os.RemoveAll(dir)
	files, err := content(root, dir, arch, certs)
	if err != nil {
		return digest, err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		return digest, err
	}
	config, err := parse(string(text))
	if err != nil {
		return digest, fmt.Errorf("deploy/Dockerfile: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return digest, err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer)
	if err != nil {
		return digest, err
	}
	image, err = mutate.ConfigFile(image, withConfig(image, config, arch))
	if err != nil {
		return digest, err
	}
	at, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		return digest, err
	}
	if err := at.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "weir"})); err != nil {
		return digest, err
	}
	if err := archive(string(at), out); err != nil {
		return digest, err
	}
	return image.Digest()
}

// withConfig returns the configuration of an image with layers alone, completed.
func withConfig(image v1.Image, config v1.Config, arch string) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		panic(err) // it is in memory
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config, file.History = "linux", arch, config, nil
	return file
}

// content builds the binary, and returns the files of the image as an archive.
func content(root, dir, arch, certs string) ([]byte, error) {
	binary := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-C", filepath.Join(root, "service"), "-tags=grpcnotrace", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name, from string // from is "" for a directory
		mode       int64
		owner      int
	}{
		{"weir", binary, 0o755, 0}, {"etc/", "", 0o755, 0}, {"etc/ssl/", "", 0o755, 0}, {"etc/ssl/certs/", "", 0o755, 0},
		{"etc/ssl/certs/ca-certificates.crt", certs, 0o644, 0}, {"var/", "", 0o755, 0}, {"var/lib/", "", 0o755, 0},
		{"var/lib/weir/", "", 0o755, 65532},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeDir}
		var data []byte
		if f.from != "" {
			var err error
			if data, err = os.ReadFile(f.from); err != nil {
				return nil, err
			}
			h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// instruction matches an instruction of the last stage of a Dockerfile that sets something of the configuration.
var instruction = regexp.MustCompile(`(?m)^(USER|EXPOSE|ENV|ENTRYPOINT|CMD) (.*)$`)

// parse returns the configuration that the last stage of a Dockerfile sets.
func parse(text string) (c v1.Config, err error) {
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	c.ExposedPorts = map[string]struct{}{}
	for _, m := range instruction.FindAllStringSubmatch(text[strings.LastIndex(text, "\nFROM "):], -1) {
		switch value := m[2]; m[1] {
		case "USER":
			c.User = value
		case "EXPOSE":
			for port := range strings.FieldsSeq(value) {
				c.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENV":
			c.Env = append(c.Env, value)
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(value), &c.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(value), &c.Cmd)
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", m[0], err)
		}
	}
	if c.User == "" || len(c.Entrypoint) == 0 {
		return c, fmt.Errorf("the last stage has no USER or no ENTRYPOINT")
	}
	return c, nil
}

// archive writes the files of a directory as an archive.
func archive(dir, out string) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return w.WriteHeader(&tar.Header{Name: name + "/", Mode: 0o755, Typeflag: tar.TypeDir})
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}
