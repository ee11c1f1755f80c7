import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Lines of two schemas, the reader's and the writer's, tab-separated; one line COMPATIBLE or INCOMPATIBLE for each. */
public class AvroCompatibility {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] schemas = line.split("\t");
            Schema reader = new Schema.Parser().parse(schemas[0]);
            Schema writer = new Schema.Parser().parse(schemas[1]);
            System.out.println(SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType());
        }
    }
}
