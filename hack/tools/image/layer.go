// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layerOf packs a file, or all that a folder holds. The packing is done anew
// each time that the library reads the layer, and once for its compressed form,
// which is kept in memory when it took time to make.
func layerOf(path string, level int) (v1.Layer, error) {
	options := []tarball.LayerOption{tarball.WithCompressionLevel(level)}
	if level != gzip.NoCompression {
		options = append(options, tarball.WithCompressedCaching)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(pack(writer, path)) }()
		return reader, nil
	}, options...)
}

func pack(w io.Writer, root string) error {
	archive := tar.NewWriter(w)
	base := root
	if info, err := os.Stat(root); err != nil {
		return err
	} else if !info.IsDir() {
		base = filepath.Dir(root)
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == base {
			return err
		}
		name, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		return add(archive, path, name)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// add packs one entry as root's, of the epoch's first second.
func add(archive *tar.Writer, path, name string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = filepath.ToSlash(name)
	if info.IsDir() {
		header.Name += "/"
	}
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(archive, file)
	return err
}
