package program

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/events/localfile"
)

// Tags of flags and arguments that name files, beside the placeholder FILE of flags and the name file of arguments.
const (
	tagWrites  = "writes"  // the command writes the file, and does not read it
	tagFolders = "folders" // it may be a folder of files
)

// checkNamedFiles refuses a named pipe, a folder or a device where the selected command reads a file: see [NamesFile]. A file that
// does not exist is left to the command.
func checkNamedFiles(parsed *kong.Context) error {
	var values []*kong.Value
	for _, f := range parsed.Flags() {
		values = append(values, f.Value)
	}
	if selected := parsed.Selected(); selected != nil {
		values = append(values, selected.Positional...)
	}
	var errs []error
	for _, v := range values {
		if !NamesFile(v) {
			continue
		}
		for _, path := range pathsOf(v.Target) {
			info, err := os.Stat(path)
			if path == "" || err != nil || info.IsDir() && v.Tag.Has(tagFolders) {
				continue
			}
			if err := localfile.Check(path); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", nameOf(v), err))
			}
		}
	}
	return errors.Join(errs...)
}

// NamesFile reports whether a flag or an argument names files that its command reads: a flag with the placeholder FILE, or an argument
// with the name file, without the tag writes.
func NamesFile(v *kong.Value) bool {
	if v.Flag == nil {
		return v.Name == "file"
	}
	return v.Flag.PlaceHolder == "FILE" && !v.Tag.Has(tagWrites)
}

func nameOf(v *kong.Value) string {
	if v.Flag != nil && v.Tag.Has(tagSetting) {
		return "setting " + v.Name
	}
	if v.Flag != nil {
		return "--" + v.Name
	}
	return "<" + v.Name + ">"
}

// pathsOf are the values of a flag or an argument of texts.
func pathsOf(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		return []string{v.String()}
	case reflect.Slice:
		var list []string
		for i := range v.Len() {
			list = append(list, pathsOf(v.Index(i))...)
		}
		return list
	default:
		return nil
	}
}
