package integration

func codeEntries() []entry { return nil }
