package main

import (
	"compress/gzip"
	"embed"
	"io/fs"
	"os"
	"path"
)

//go:embed assets
var assets embed.FS

// copied are files of the repository that the site has, and their paths there.
var copied = map[string]string{
	"service/internal/web/assets/uplot/uPlot.iife.min.js": "uplot/uPlot.iife.min.js",
	"service/internal/web/assets/uplot/uPlot.min.css":     "uplot/uPlot.min.css",
	"service/internal/web/assets/uplot/LICENSE":           "uplot/LICENSE",
	"service/internal/web/assets/icon.svg":                "icon.svg",
	openapi:                                               "openapi.yaml",
	proto:                                                 proto,
}

// copyAssets writes the files that are not pages.
func (s *site) copyAssets() error {
	for from, to := range s.files {
		content, err := s.read(from)
		if err != nil {
			return err
		}
		if err := s.write(to, content); err != nil {
			return err
		}
	}
	code, err := highlightCSS()
	if err != nil {
		return err
	}
	if err := s.write("code.css", code); err != nil {
		return err
	}
	return fs.WalkDir(assets, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		return s.write(path.Base(name), content)
	})
}

// compress replaces a file by a compressed one.
func compress(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(from)
}
