// Chart packages the Helm chart of a checkout, as an archive that helm install reads and as an OCI image layout:
//
//	go run ./chart -root ../.. -version 1.2.3 -o ../../bin/release
//
// skopeo copy oci-archive:weir_chart.oci.tar docker://… pushes the layout to a registry.
// The chart gets the version, and so does the tag of its image. The archives depend on the committed files and on the
// version alone.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	dir = "deploy/helm/weir"

	// The media types of Helm.
	configType = "application/vnd.cncf.helm.config.v1+json"
	chartType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("chart: ")
	root := flag.String("root", ".", "the root of the checkout")
	version := flag.String("version", "0.1.0", "the version of the chart and of weir")
	out := flag.String("o", ".", "the directory to write to")
	flag.Parse()
	if err := build(*root, strings.TrimPrefix(*version, "v"), *out); err != nil {
		log.Fatal(err)
	}
}

// A file is a file of an archive.
type file struct {
	name string
	data []byte
}

// build writes the two archives.
func build(root, version, out string) error {
	files, err := content(root, version)
	if err != nil {
		return err
	}
	metadata, err := yaml.YAMLToJSON(files[0].data)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := archive(w, files); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "weir_chart.tgz"), packed.Bytes(), 0o644); err != nil {
		return err
	}
	var oci bytes.Buffer
	if err := archive(&oci, layout(version, metadata, packed.Bytes())); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "weir_chart.oci.tar"), oci.Bytes(), 0o644)
}

// versions are the lines of Chart.yaml that have the version.
var versions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// content returns the committed files of the chart, Chart.yaml first.
func content(root, version string) (files []file, err error) {
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files = make([]file, 1)
	for path := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		name := "weir" + strings.TrimPrefix(path, dir)
		if name != "weir/Chart.yaml" {
			files = append(files, file{name, data})
			continue
		}
		if n := len(versions.FindAll(data, -1)); n != 2 {
			return nil, fmt.Errorf("%s has %d lines with a version: want 2", path, n)
		}
		files[0] = file{name, versions.ReplaceAll(data, []byte(`$1: "`+version+`"`))}
	}
	if files[0].data == nil {
		return nil, fmt.Errorf("%s has no Chart.yaml", dir)
	}
	return files, nil
}

// layout returns the files of an OCI image layout with the chart.
func layout(version string, metadata, chart []byte) []file {
	files := []file{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	blob := func(of types.MediaType, data []byte) v1.Descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{"blobs/sha256/" + sum, data})
		return v1.Descriptor{MediaType: of, Size: int64(len(data)), Digest: v1.Hash{Algorithm: "sha256", Hex: sum}}
	}
	manifest := blob(types.OCIManifestSchema1, marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: blob(configType, metadata), Layers: []v1.Descriptor{blob(chartType, chart)},
	}))
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{manifest}}
	return append(files, file{"index.json", marshal(index)})
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types are fixed
	}
	return data
}

// archive writes files as a tar archive, with a time that is the same in each build.
func archive(to io.Writer, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
