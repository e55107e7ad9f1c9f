-- As whom a person gave a mandate: asked about anew whenever it is used.
ALTER TABLE mandate ADD COLUMN given text;
