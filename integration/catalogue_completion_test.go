package integration

func completionEntries() []entry { return nil }
