//go:build !linux

package busembed

import "errors"

// canSyncFilesystem is false: on these systems the server syncs stream by stream.
const canSyncFilesystem = false

type filesystem struct{}

func openFilesystem(string) (*filesystem, error) { return nil, errors.ErrUnsupported }

func (*filesystem) sync() error { return errors.ErrUnsupported }

func (*filesystem) close() {}
